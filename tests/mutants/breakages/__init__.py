"""All breakages, by what they are about. An entry is: what goes wrong, where, what stands there, what would, its test."""

from tests.mutants.breakages import command, contract, kit, publisher, records, supervision, transaction, wire

BREAKAGES = (
    *transaction.BREAKAGES,
    *supervision.BREAKAGES,
    *wire.BREAKAGES,
    *contract.BREAKAGES,
    *publisher.BREAKAGES,
    *kit.BREAKAGES,
    *command.BREAKAGES,
    *records.BREAKAGES,
)
