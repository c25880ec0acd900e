// Nothing: what many files include is compiled once, for the two targets of this file (room.cmake).
