# `make install` and `make uninstall`, below DESTDIR and PREFIX.

.PHONY: install uninstall
# shell:where it looks, below share/
COMPLETIONS := bash:bash-completion/completions/cleat fish:fish/vendor_completions.d/cleat.fish zsh:zsh/site-functions/_cleat
install: all
	install -d $(DESTDIR)$(PREFIX)/bin $(DESTDIR)$(PREFIX)/include/cleat $(DESTDIR)$(PREFIX)/lib/pkgconfig \
	  $(DESTDIR)$(PREFIX)/share/man/man1
	install -m 755 $(BUILD)/cleat $(DESTDIR)$(PREFIX)/bin/cleat
	install -m 644 api/cleat.h $(DESTDIR)$(PREFIX)/include/cleat.h
	install -m 644 $(wildcard api/cleat/*.h) $(DESTDIR)$(PREFIX)/include/cleat
	install -m 644 $(BUILD)/libcleat.a $(DESTDIR)$(PREFIX)/lib/libcleat.a
	install -m 755 $(BUILD)/$(SO_FILE) $(DESTDIR)$(PREFIX)/lib/$(SO_FILE)
	ln -sf $(SO_FILE) $(DESTDIR)$(PREFIX)/lib/$(SO_NAME)
	ln -sf $(SO_NAME) $(DESTDIR)$(PREFIX)/lib/libcleat.so
	install -m 644 $(BUILD)/cleat.pc $(DESTDIR)$(PREFIX)/lib/pkgconfig/cleat.pc
	install -m 644 api/cli/cleat.1 $(DESTDIR)$(PREFIX)/share/man/man1/cleat.1
	$(foreach pair,$(COMPLETIONS),install -d $(DESTDIR)$(PREFIX)/share/$(dir $(lastword $(subst :, ,$(pair)))) && \
	  $(BUILD)/cleat completion $(firstword $(subst :, ,$(pair))) > $(DESTDIR)$(PREFIX)/share/$(lastword $(subst :, ,$(pair))) &&) true

uninstall:
	rm -f $(addprefix $(DESTDIR)$(PREFIX)/,bin/cleat include/cleat.h lib/libcleat.a lib/$(SO_FILE) lib/$(SO_NAME) \
	  lib/libcleat.so lib/pkgconfig/cleat.pc share/man/man1/cleat.1 $(patsubst api/%,include/%,$(wildcard api/cleat/*.h)) \
	  $(addprefix share/,$(foreach pair,$(COMPLETIONS),$(lastword $(subst :, ,$(pair))))))
	rmdir $(DESTDIR)$(PREFIX)/include/cleat 2>/dev/null || true

