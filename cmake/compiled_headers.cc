// Nothing: what many files include is compiled once, for the targets of this file (room.cmake).
