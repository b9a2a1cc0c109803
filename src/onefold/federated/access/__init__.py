"""Who may ask a site for what: signed statements, the data owner's approvals, limits, and what was noted."""
