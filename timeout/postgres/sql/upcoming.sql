SELECT w.id, w.version, w.at
FROM (VALUES (1::smallint), (2::smallint)) AS s (state), LATERAL (
    SELECT t.id, t.version, t.at
    FROM {s}.hw_tasks t
    WHERE t.topic = $1 AND t.state = s.state AND (t.at, t.id) > ($2, $3) AND t.at < $4
        AND ($5::smallint[] IS NULL OR (t.slot & $6::smallint) = ANY ($5))
    ORDER BY t.at, t.id
    LIMIT $7
) w
ORDER BY w.at, w.id
LIMIT $7
