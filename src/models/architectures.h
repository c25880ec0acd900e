// Every architecture, for programs that name one.
#pragma once

#include "models/bert.h"
#include "models/distilbert.h"
