package rules

// checkNext returns when the next check of the user's is due: at once if one wants the connection closed.
func (d *decision) checkNext() Time {
	switch {
	case d.e.Checked != 0:
		return 0
	case d.e.CheckAt == 0:
		return Never
	}
	return d.e.CheckAt
}

// checked has the user inspect the connection, held or not, and closes it if the user wants that.
func (d *decision) checked() (Outcome, bool) {
	if d.e.Checked == 0 {
		return Outcome{Do: Inspect}, true
	}
	return d.doom(d.e.Checked, WhenAllowed)
}
