-- What is due in slots that nobody asks for is passed over, unless there are $4 of it. Of what is due later
-- only the first are looked at: where none is wanted, there is nothing to do before the last of those. What
-- was moved is due later than the index has it, and what follows may be due before: then more are looked at, too.
WITH {clock},
{front $5}
SELECT clock.now, p.paused,
    (SELECT min(coalesce(
        (SELECT k.filed
            FROM (SELECT t.filed, t.id, t.slot, row_number() OVER (ORDER BY t.filed, t.id) AS n
                FROM {s}.hw_tasks t
                WHERE t.topic = p.no AND t.state = s.state AND t.filed >= s.since AND t.filed <= clock.now
                ORDER BY t.filed, t.id LIMIT $4::bigint) k
            WHERE $2::smallint[] IS NULL OR (k.slot & $3::smallint) = ANY ($2) OR k.n = $4 ORDER BY k.filed, k.id LIMIT 1),
        (SELECT CASE WHEN count(*) = 1000 THEN least(min(l.at) FILTER (WHERE l.mine), max(l.filed)) ELSE min(l.at) FILTER (WHERE l.mine) END
            FROM (SELECT t.filed, {time} AS at, $2 IS NULL OR (t.slot & $3) = ANY ($2) AS mine
                FROM {s}.hw_tasks t
                WHERE t.topic = p.no AND t.state = s.state AND t.filed > clock.now AND t.filed >= s.ahead
                ORDER BY t.filed, t.id LIMIT CASE WHEN $2 IS NOT NULL OR (
                    SELECT t.moved FROM {s}.hw_tasks t
                    WHERE t.topic = p.no AND t.state = s.state AND t.filed > clock.now AND t.filed >= s.ahead
                    ORDER BY t.filed, t.id LIMIT 1) THEN 1000 ELSE 1 END) l)
        )) FROM (SELECT 1::smallint AS state, waiting AS since, 0::bigint AS ahead FROM front UNION ALL SELECT 2, running, ahead FROM front) s)
FROM {s}.hw_topics p, clock
WHERE p.no = $1
