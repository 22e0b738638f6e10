SELECT {down}
