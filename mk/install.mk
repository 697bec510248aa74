# `make man`, `make install` and `make uninstall`, below DESTDIR and PREFIX.

# The man pages of the library are made by Python. Without it, `make install` leaves out those that were not made before.
.PHONY: man
man: $(BUILD)/man/cleat.3
$(BUILD)/man/cleat.3: api/cleat.3.in api/cli/cleat.1 $(wildcard api/cleat.h api/cleat/*.h docs/site/*.py)
	$(call say,MAN,$(@D))
	$(Q)python3 -B docs/site/man_pages.py $(@D)

.PHONY: install uninstall
# shell:where it looks, below share/
COMPLETIONS := bash:bash-completion/completions/cleat fish:fish/vendor_completions.d/cleat.fish zsh:zsh/site-functions/_cleat
install: all $(if $(shell command -v python3),man)
	install -d $(DESTDIR)$(PREFIX)/bin $(DESTDIR)$(PREFIX)/include/cleat $(DESTDIR)$(PREFIX)/lib/pkgconfig \
	  $(DESTDIR)$(PREFIX)/share/man/man1 $(DESTDIR)$(PREFIX)/share/man/man3
	install -m 755 $(BUILD)/cleat $(DESTDIR)$(PREFIX)/bin/cleat
	install -m 644 api/cleat.h $(DESTDIR)$(PREFIX)/include/cleat.h
	install -m 644 $(wildcard api/cleat/*.h) $(DESTDIR)$(PREFIX)/include/cleat
	install -m 644 $(BUILD)/libcleat.a $(DESTDIR)$(PREFIX)/lib/libcleat.a
	install -m 755 $(BUILD)/$(SO_FILE) $(DESTDIR)$(PREFIX)/lib/$(SO_FILE)
	ln -sf $(SO_FILE) $(DESTDIR)$(PREFIX)/lib/$(SO_NAME)
	ln -sf $(SO_NAME) $(DESTDIR)$(PREFIX)/lib/libcleat.so
	install -m 644 $(BUILD)/cleat.pc $(DESTDIR)$(PREFIX)/lib/pkgconfig/cleat.pc
	install -m 644 api/cli/cleat.1 $(DESTDIR)$(PREFIX)/share/man/man1/cleat.1
	@set -- $(BUILD)/man/*.3; if [ -e "$$1" ]; then install -m 644 "$$@" $(DESTDIR)$(PREFIX)/share/man/man3; \
	  else echo 'cleat: no python3: the man pages of the library are left out' >&2; fi
	$(foreach pair,$(COMPLETIONS),install -d $(DESTDIR)$(PREFIX)/share/$(dir $(lastword $(subst :, ,$(pair)))) && \
	  $(BUILD)/cleat completion $(firstword $(subst :, ,$(pair))) > $(DESTDIR)$(PREFIX)/share/$(lastword $(subst :, ,$(pair))) &&) true

uninstall:
	rm -f $(addprefix $(DESTDIR)$(PREFIX)/,bin/cleat include/cleat.h lib/libcleat.a lib/$(SO_FILE) lib/$(SO_NAME) \
	  lib/libcleat.so lib/pkgconfig/cleat.pc share/man/man1/cleat.1 $(patsubst api/%,include/%,$(wildcard api/cleat/*.h)) \
	  $(addprefix share/,$(foreach pair,$(COMPLETIONS),$(lastword $(subst :, ,$(pair))))))
	rm -f $(DESTDIR)$(PREFIX)/share/man/man3/cleat.3 $(DESTDIR)$(PREFIX)/share/man/man3/cleat_*.3
	rmdir $(DESTDIR)$(PREFIX)/include/cleat 2>/dev/null || true

