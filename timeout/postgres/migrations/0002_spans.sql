-- For how long a lease and a member were to last, so that those can be told that were made before
-- the clock was stepped back. NULL is unknown: no lease, or one of an earlier version.
ALTER TABLE {s}.hw_tasks ADD COLUMN span bigint;
ALTER TABLE {s}.hw_members ADD COLUMN ttl bigint;
