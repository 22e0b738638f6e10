-- What is due in slots that nobody asks for is passed over, unless there are $4 of it. What is due later is looked at up to
-- the first task that is wanted; if that was moved, it is due later than the index has it, and what follows up to then may be
-- due before. There is nothing to do before the 1000th: no more are looked at.
WITH {clock},
{front $5}
SELECT clock.now, {paused}, {until},
    (SELECT min(coalesce(
        (SELECT k.filed
            FROM (SELECT t.filed, t.id, t.slot, row_number() OVER (ORDER BY t.filed, t.id) AS n
                FROM {s}.hw_tasks t
                WHERE t.topic = p.no AND t.state = s.state AND t.filed >= s.since AND t.filed <= clock.now
                ORDER BY t.filed, t.id LIMIT $4::bigint) k
            WHERE $2::smallint[] IS NULL OR (k.slot & $3::smallint) = ANY ($2) OR k.n = $4 ORDER BY k.filed, k.id LIMIT 1),
        (SELECT least(k.first, CASE WHEN k.n = 1000 THEN k.filed END)
            FROM (SELECT t.filed, t.id, min({time}) FILTER (WHERE $2 IS NULL OR (t.slot & $3) = ANY ($2)) OVER earlier AS first,
                    row_number() OVER earlier AS n, lead(t.filed) OVER earlier AS next
                FROM {s}.hw_tasks t
                WHERE t.topic = p.no AND t.state = s.state AND t.filed > clock.now AND t.filed >= s.ahead
                WINDOW earlier AS (ORDER BY t.filed, t.id ROWS UNBOUNDED PRECEDING)
                ORDER BY t.filed, t.id LIMIT 1000) k
            WHERE k.first <= k.filed OR k.n = 1000 OR k.next IS NULL ORDER BY k.filed, k.id LIMIT 1)
        )) FROM (SELECT 1::smallint AS state, waiting AS since, 0::bigint AS ahead FROM front UNION ALL SELECT 2, running, ahead FROM front) s)
FROM {s}.hw_topics p, clock
WHERE p.no = $1
