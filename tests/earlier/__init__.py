"""What earlier versions wrote is still read: a sessions database, a recording, remembered answers, rules."""
