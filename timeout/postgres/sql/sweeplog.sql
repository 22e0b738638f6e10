-- A page of the log: what is older than it has to be, or of tasks that are gone, is deleted.
WITH page AS MATERIALIZED (
    SELECT no, topic, id, at FROM {s}.hw_executions WHERE no > $1 ORDER BY no LIMIT $2
), gone AS (
    DELETE FROM {s}.hw_executions x
    USING page
    WHERE x.no = page.no AND (page.at <= {now} - coalesce((SELECT max(k.keep) FROM unnest($3::integer[], $4::bigint[]) AS k (topic, keep) WHERE k.topic = page.topic), 0)
        OR NOT EXISTS (SELECT FROM {s}.hw_tasks t WHERE t.topic = page.topic AND t.id = page.id))
    RETURNING 1
)
SELECT coalesce((SELECT max(no) FROM page), 0), (SELECT count(*) FROM page), (SELECT count(*) FROM gone)
