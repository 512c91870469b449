"""The bundled decision whether any tool fits: how it is fitted and checked."""
