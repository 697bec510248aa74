"""Adds the pages of the C API, which docs.sh has made beside the site, to those of docs/."""

import os

from mkdocs.structure.files import File


def on_files(files, config):
    folder = os.path.join(os.path.dirname(os.path.abspath(config.site_dir)), "docs-api", "pages")
    for name in sorted(os.listdir(folder)):
        files.append(File.generated(config, "api/" + name, abs_src_path=os.path.join(folder, name)))
    return files
