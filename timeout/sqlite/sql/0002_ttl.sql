-- How long the member was to last. After the clock was stepped back, this shows members of before.
-- NULL is unknown: an earlier version wrote the member.
ALTER TABLE hw_members ADD COLUMN ttl INTEGER;
