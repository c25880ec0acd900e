// Includes the header of every architecture.
#pragma once

#include "models/bert.h"
#include "models/decoder_model.h"
#include "models/distilbert.h"
#include "models/gpt2.h"
#include "models/llama.h"
