"""The process that runs planned calls on a device."""
