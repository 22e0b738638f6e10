-- The run of a member tells two processes with one name apart. NULL is unknown: the member is of an
-- earlier version, and its beats leave the column as it is.
ALTER TABLE {s}.hw_members ADD COLUMN run text;
