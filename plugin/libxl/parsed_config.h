// SPDX-License-Identifier: LGPL-2.1-or-later
// A domain's configuration as libxl reads it from its own JSON, freed with its owner. Used by what
// looks into recorded and into coming configurations. It decides nothing.
#pragma once

#include "plugin/libxl/xen.h"

namespace xenpack {

class ParsedConfig {
  public:
    // NOLINTNEXTLINE(cppcoreguidelines-pro-type-member-init): libxl has its own initialiser.
    ParsedConfig() { libxl_domain_config_init(&config_); }
    ~ParsedConfig() { libxl_domain_config_dispose(&config_); }
    ParsedConfig(const ParsedConfig&) = delete;
    ParsedConfig& operator=(const ParsedConfig&) = delete;

    // Once; what it leaves behind where it fails is of no use.
    bool parse(libxl_ctx* ctx, const char* json) {
        return libxl_domain_config_from_json(ctx, &config_, json) == 0;
    }
    libxl_domain_config& get() noexcept { return config_; }

  private:
    libxl_domain_config config_;
};

}  // namespace xenpack
