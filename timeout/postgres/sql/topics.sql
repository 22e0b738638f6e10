SELECT no, name, config FROM {s}.hw_topics WHERE $1::text[] IS NULL OR name = ANY ($1) ORDER BY name
