"""Organizations, projects and project keys: `/orgs/{orgSlug}`, `.../projects` and `.../keys`."""
