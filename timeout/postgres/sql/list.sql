-- A page of at most $5 tasks ends at the latest with the $9th that the index has after ($3, $4). A task that was moved
-- stands there before its place. Those of earlier pages that could not be filed again stand after ($7, $8). How many
-- there are besides is known without reading their payloads.
WITH page AS MATERIALIZED (
    SELECT t.* FROM {s}.hw_tasks t
    WHERE t.topic = (SELECT no FROM {s}.hw_topics WHERE name = $1) AND t.state = $2 AND (t.filed, t.id) > ($3, $4)
    ORDER BY t.filed, t.id
    LIMIT $9
),
last AS MATERIALIZED (
    SELECT p.filed, p.id FROM page p ORDER BY p.filed, p.id OFFSET $9::bigint - 1
),
passed AS (
    SELECT t.* FROM {s}.hw_tasks t
    WHERE t.topic = (SELECT no FROM {s}.hw_topics WHERE name = $1) AND t.state = $2 AND (t.filed, t.id) > ($7, $8) AND (t.filed, t.id) <= ($3, $4)
        AND t.moved AND (t.due, t.id) > ($3, $4)
)
SELECT t.found, t.some_moved, (SELECT filed FROM last), (SELECT id FROM last),
    coalesce(CASE WHEN $10 THEN octet_length(t.payload) END, 0), {task, brief if $10}
FROM (
    SELECT t.*, count(*) OVER () AS found, bool_or(t.moved) OVER () AS some_moved,
        sum(coalesce(octet_length(t.payload), 0)) OVER (ORDER BY {time}, t.id ROWS UNBOUNDED PRECEDING) AS bytes
    FROM (SELECT * FROM page UNION ALL SELECT * FROM passed) t
) t
WHERE t.bytes <= $6::bigint OR $10
ORDER BY {time}, t.id
LIMIT $5
