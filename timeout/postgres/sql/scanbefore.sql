-- A page in the order of the index. What was moved to a later time is filed again on the way, other
-- than what somebody has locked: where it stands behind the page then, it is on a later one. The cursor
-- is where the page ends in the index, and there is a row for it at least, where anything was found.
WITH page AS MATERIALIZED (
    SELECT w.*
    FROM (VALUES (1::smallint), (2::smallint)) AS s (state), LATERAL (
        SELECT t.ctid AS place, t.id, t.version, t.filed, t.moved, {time} AS at
        FROM {s}.hw_tasks t
        WHERE t.topic = (SELECT no FROM {s}.hw_topics WHERE name = $1) AND t.state = s.state AND (t.filed, t.id) > ($2, $3) AND t.filed < $4
            AND ($5::smallint[] IS NULL OR (t.slot & $6::smallint) = ANY ($5))
        ORDER BY t.filed, t.id
        LIMIT $7
    ) w
    ORDER BY w.filed, w.id
    LIMIT $7
),
last AS MATERIALIZED (
    SELECT p.filed, p.id, (SELECT count(*) FROM page) AS n FROM page p ORDER BY p.filed DESC, p.id DESC LIMIT 1
),
moved AS MATERIALIZED (
    SELECT t.ctid AS place FROM page p JOIN {s}.hw_tasks t ON t.ctid = p.place
    WHERE p.moved AND t.state + 0 = 1
    FOR UPDATE OF t SKIP LOCKED
),
refiled AS (
    UPDATE {s}.hw_tasks t SET filed = {time}, moved = false FROM moved k WHERE t.ctid = k.place
    RETURNING t.id, t.version, t.filed
),
found AS (
    SELECT p.id, coalesce(r.version, p.version) AS version, coalesce(r.filed, p.at) AS at
    FROM page p LEFT JOIN refiled r ON r.id = p.id, last
    WHERE r.id IS NULL OR last.n < $7 OR (r.filed, r.id) <= (last.filed, last.id)
)
SELECT last.n, last.filed, last.id, coalesce(f.id, ''), coalesce(f.version, 0), coalesce(f.at, 0)
FROM last LEFT JOIN found f ON f.at < $4
ORDER BY f.at, f.id
