FROM (
    SELECT k.*, CASE WHEN k.due >= 0 THEN k.due ELSE {in k.after} END AS at, clock.now
    FROM unnest($1::integer[], $2::text[], $3::smallint[], $4::bigint[], $5::bigint[], $6::smallint[], $7::text[], $8::bytea[])
        AS k (topic, id, slot, due, after, over, callback, payload), clock
) k
WHERE {known} AND {announce}
ORDER BY k.topic, k.id COLLATE "C"
