package fleet

const childURL = "FLEET_CHILD_URL"

func runChild() {}
