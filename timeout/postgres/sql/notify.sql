SELECT pg_notify($1, topic) FROM unnest($2::text[]) AS topic
