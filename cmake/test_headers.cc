// Nothing: what tests include is compiled once, for this target (room.cmake).
