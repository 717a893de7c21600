"""Write bertsmith/commands/help.json anew: the help of all commands, from their settings."""

from bertsmith.cli import live_page
from bertsmith.commands.catalog import COMMANDS
from bertsmith.commands.help import TABLE, to_text

if __name__ == "__main__":
    TABLE.write_text(to_text({name: live_page(name) for name in COMMANDS}), encoding="utf-8")
