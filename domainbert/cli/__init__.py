"""What all command lines share: messages, options and one scoring command."""
