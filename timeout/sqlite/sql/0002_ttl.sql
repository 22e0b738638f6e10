-- For how long a member was to last, so that one can be told that was there before the clock was
-- stepped back. NULL is unknown: the member is of an earlier version.
ALTER TABLE hw_members ADD COLUMN ttl INTEGER;
