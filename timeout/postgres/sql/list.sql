-- How many there are besides is known without reading their payloads.
SELECT t.found, {task}
FROM (
    SELECT t.*, count(*) OVER () AS found, sum(coalesce(octet_length(t.payload), 0)) OVER (ORDER BY t.at, t.id ROWS UNBOUNDED PRECEDING) AS bytes
    FROM (
        SELECT * FROM {s}.hw_tasks t
        WHERE t.topic = $1 AND t.state = $2 AND (t.at, t.id) > ($3, $4)
        ORDER BY t.at, t.id
        LIMIT $5
    ) t
) t
WHERE t.bytes <= $6::bigint
ORDER BY t.at, t.id
