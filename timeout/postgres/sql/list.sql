-- How many there are besides is known without reading their payloads. Those that were moved stand in
-- the index before their places, so all are looked at that stand before the end of the page.
WITH still AS MATERIALIZED (
    SELECT t.* FROM {s}.hw_tasks t
    WHERE t.topic = (SELECT no FROM {s}.hw_topics WHERE name = $1) AND t.state = $2 AND (t.filed, t.id) > ($3, $4) AND NOT t.moved
    ORDER BY t.filed, t.id
    LIMIT $5
),
moved AS MATERIALIZED (
    SELECT t.* FROM {s}.hw_tasks t
    WHERE t.topic = (SELECT no FROM {s}.hw_topics WHERE name = $1) AND t.state = $2 AND $2 = 1 AND t.moved AND (t.due, t.id) > ($3, $4)
        AND t.filed <= (SELECT CASE WHEN count(*) = $5 THEN max(filed) ELSE 9223372036854775807 END FROM still)
    ORDER BY t.due, t.id
    LIMIT $5
)
SELECT t.found, coalesce(CASE WHEN $7 THEN octet_length(t.payload) END, 0), {task, brief if $7}
FROM (
    SELECT t.*, count(*) OVER () AS found, sum(coalesce(octet_length(t.payload), 0)) OVER (ORDER BY {time}, t.id ROWS UNBOUNDED PRECEDING) AS bytes
    FROM (
        SELECT * FROM (SELECT * FROM still UNION ALL SELECT * FROM moved) t
        ORDER BY {time}, t.id
        LIMIT $5
    ) t
) t
WHERE t.bytes <= $6::bigint OR $7
ORDER BY {time}, t.id
