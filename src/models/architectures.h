// Includes the header of every architecture.
#pragma once

#include "models/bert.h"
#include "models/distilbert.h"
