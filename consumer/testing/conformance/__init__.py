"""What every source must do, tried on one of them: `consumer.testing.check_source`."""
