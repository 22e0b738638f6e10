-- A number of each task that is filed a second or more before its time of filing. Whoever remembers where the
-- due tasks begin sees by the last number that he has to look again. The number is there at once for all, and
-- leaves no dead rows behind. The rights are those of the other sequence.
CREATE SEQUENCE {s}.hw_past CACHE 1;
DO $$
DECLARE
    who oid;
BEGIN
    FOR who IN SELECT DISTINCT a.grantee FROM pg_class c, aclexplode(c.relacl) a WHERE c.oid = '{s}.hw_number'::regclass AND a.privilege_type = 'USAGE'
    LOOP
        EXECUTE 'GRANT USAGE ON SEQUENCE {s}.hw_past TO ' || CASE WHEN who = 0 THEN 'PUBLIC' ELSE who::regrole::text END;
    END LOOP;
END $$;
