"""The consumer as a process: real signals, real servers, real failures."""
