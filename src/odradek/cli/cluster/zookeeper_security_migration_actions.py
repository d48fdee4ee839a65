"""Changes the ACL of every node that belongs to brokers, from the root down.

It is safe to run again, and while brokers run: each node gets the ACL that a broker would make it
with. A node that is deleted meanwhile is left out.
"""

import argparse
import logging
from typing import Any

from kazoo.exceptions import KazooException, NoAuthError, NoNodeError

from odradek.cli.cluster.zookeeper_connection import security_of, zookeeper_settings
from odradek.config.setting import InvalidSetting
from odradek.metadata.kazoo_client import Troubles, make_client
from odradek.metadata.store_setup import ROOTS
from odradek.metadata.zookeeper_acls import SECURED_ROOTS, acl_of
from odradek.metadata.zookeeper_security import HOW_TO_LOG_IN
from odradek.tools.failures import CommandFailed, UsageError
from odradek.tools.terminal import print_json
from odradek.wording import counted


def migrate(arguments: argparse.Namespace) -> int:
    is_secure = arguments.acl == "secure"
    try:
        settings = zookeeper_settings(arguments.zk_tls_config_file, arguments.connect)
    except InvalidSetting as error:
        raise CommandFailed(str(error)) from None
    security = security_of(settings)
    has_certificate = security.tls is not None and security.tls.keystore is not None
    if security.log_in is None and not has_certificate:
        raise UsageError(
            "nobody owns the nodes: log in to ZooKeeper as the brokers do, by"
            f" {HOW_TO_LOG_IN} in the file of --zk-tls-config-file"
        )
    troubles = Troubles()
    # What fails is the error of the command.
    logging.getLogger("odradek.metadata").setLevel(logging.CRITICAL)
    client = make_client(
        arguments.connect, arguments.session_timeout_ms / 1000, security, troubles=troubles
    )
    try:
        client.start(arguments.connection_timeout_ms / 1000)
        changed = _change(client, is_secure=is_secure, checks_paths=arguments.checks_paths)
    except (KazooException, client.handler.timeout_exception) as error:
        reason = troubles.newest or f"ZooKeeper at {arguments.connect}: {error!r}"
        raise CommandFailed(reason) from None
    finally:
        client.stop()
        client.close()
    if arguments.json:
        print_json({"acl": arguments.acl, "nodes": changed})
    else:
        whom = "belong to their brokers" if is_secure else "are open to everybody"
        print(f"{counted(changed, 'node')} of {arguments.connect} {whom} now.")
    return 0


def _change(client: Any, *, is_secure: bool, checks_paths: bool) -> int:
    if checks_paths:
        missing = [path for path in ROOTS if client.exists(path) is None]
        if missing:
            raise CommandFailed(
                f"{', '.join(missing)} is missing, so nothing was changed: start a broker first, or"
                " leave out --enable.path.check"
            )
    paths = [path for path in SECURED_ROOTS if client.exists(path) is not None]
    changed = 0
    while paths:
        path = paths.pop()
        try:
            client.set_acls(path, acl_of(path, is_secure))
            changed += 1
            prefix = path.rstrip("/")
            paths += [f"{prefix}/{name}" for name in client.get_children(path)]
        except NoNodeError:
            continue
        except NoAuthError:
            raise CommandFailed(
                f"{path} belongs to somebody else: log in as its owner, or as the super user of"
                " ZooKeeper"
            ) from None
    return changed
