-- Answers with the highest term that keeps this node out, or writes that it was here.
WITH higher AS MATERIALIZED (
    SELECT coalesce(max(f.term), 0) AS term
    FROM {s}.hw_fences f
    WHERE f.topic = $1 AND f.slot = ANY ($2::smallint[]) AND f.term > $3::bigint AND f.at > {now} - $4::bigint
),
written AS (
    INSERT INTO {s}.hw_fences AS f (topic, slot, term, at)
    SELECT p.no, k.slot, $3, {now}
    FROM {s}.hw_topics p, unnest($2) AS k (slot)
    WHERE p.no = $1 AND (SELECT term FROM higher) = 0 AND NOT EXISTS (
        SELECT FROM {s}.hw_fences f
        WHERE f.topic = $1 AND f.slot = k.slot AND f.term = $3 AND f.at > {now} - $5::bigint)
    ORDER BY k.slot
    ON CONFLICT (topic, slot) DO UPDATE SET term = excluded.term, at = excluded.at
    WHERE f.term <= excluded.term OR f.at <= excluded.at - $4
)
SELECT term FROM higher
