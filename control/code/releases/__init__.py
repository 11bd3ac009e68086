"""Reports of releases with their commits: `api` handles them, `store.report_release` records one of any system."""
