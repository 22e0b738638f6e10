-- Files tasks again that were moved behind the end of a page, ($4, $5), and that the index has in it, after ($2, $3).
-- The answer is how many it has left: somebody has locked them.
WITH passed AS MATERIALIZED (
    SELECT t.ctid AS place FROM {s}.hw_tasks t
    WHERE t.topic = (SELECT no FROM {s}.hw_topics WHERE name = $1) AND t.state = 1 AND (t.filed, t.id) > ($2, $3) AND (t.filed, t.id) <= ($4, $5)
        AND t.moved AND (t.due, t.id) > ($4, $5)
    ORDER BY t.filed, t.id
),
moved AS MATERIALIZED (
    SELECT t.ctid AS place FROM passed p JOIN {s}.hw_tasks t ON t.ctid = p.place
    WHERE t.moved AND t.state + 0 = 1
    FOR UPDATE OF t SKIP LOCKED
),
refiled AS (
    UPDATE {s}.hw_tasks t SET filed = {time}, moved = false FROM moved k WHERE t.ctid = k.place
    RETURNING t.id
)
SELECT (SELECT count(*) FROM passed) - (SELECT count(*) FROM refiled)
