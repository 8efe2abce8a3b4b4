"""Files of earlier versions are still read: a sessions database, a recording, remembered answers, rules."""
