"""Every sentence of the contract has a test here that fails when the sentence is broken."""
