"""Payloads by the schemas that the platforms document, with what we read and some of what we do not."""

from datetime import UTC, datetime, timedelta
from typing import Any, Final

START: Final = datetime.now(UTC).replace(microsecond=0) - timedelta(hours=6)
REPOSITORY: Final = "shop/web"


def at(minutes: int) -> datetime:
    return START + timedelta(minutes=minutes)


def rfc(minutes: int) -> str:
    return at(minutes).strftime("%Y-%m-%dT%H:%M:%SZ")


def epoch_ms(minutes: int) -> int:
    return int(at(minutes).timestamp() * 1_000)


def full_sha(start: str) -> str:
    return start.ljust(40, "0")


def github_commit(start: str, message: str, minutes: int = 0, **more: Any) -> dict[str, Any]:
    return {
        "id": full_sha(start),
        "distinct": True,
        "message": message,
        "timestamp": rfc(minutes),
        "url": f"https://github.com/{REPOSITORY}/commit/{full_sha(start)}",
        "author": {"name": "Ada", "email": "ada@example.com", "username": "ada"},
        "added": [],
        "removed": [],
        "modified": ["src/cart.py"],
    } | more


def github_push(
    minutes: int, *commits: dict[str, Any], branch: str = "main", repository: str = REPOSITORY
) -> dict[str, Any]:
    return {
        "ref": f"refs/heads/{branch}",
        "after": commits[-1]["id"] if commits else full_sha("0"),
        "commits": list(commits),
        "repository": github_repository(repository) | {"pushed_at": int(at(minutes).timestamp())},
    }


def github_repository(name: str = REPOSITORY) -> dict[str, Any]:
    return {"id": 1, "full_name": name, "default_branch": "main", "html_url": f"https://github.com/{name}"}


def github_pull_request(
    minutes: int,
    action: str,
    number: int,
    body: str | None,
    *,
    state: str = "open",
    merged: bool = False,
    merge_sha: str | None = None,
    base: str = "main",
    opened: int = 0,
    repository: str = REPOSITORY,
    **more: Any,
) -> dict[str, Any]:
    pull_request = {
        "number": number,
        "title": f"Change {number}",
        "state": state,
        "body": body,
        "merged": merged,
        "merge_commit_sha": None if merge_sha is None else full_sha(merge_sha),
        "html_url": f"https://github.com/{repository}/pull/{number}",
        "user": {"login": "ada"},
        "head": {"ref": "fix", "sha": full_sha("aa")},
        "base": {"ref": base, "sha": full_sha("bb")},
        "created_at": rfc(opened),
        "updated_at": rfc(minutes),
    }
    return {"action": action, "pull_request": pull_request | more, "repository": github_repository(repository)}


def github_issue(
    minutes: int, action: str, number: int, state: str, title: str = "Totals", repository: str = REPOSITORY, **more: Any
) -> dict[str, Any]:
    url = f"https://github.com/{repository}/issues/{number}"
    issue = {"number": number, "title": title, "state": state, "html_url": url, "updated_at": rfc(minutes)}
    return {"action": action, "issue": issue | more, "repository": github_repository(repository)}


def github_release(minutes: int, tag: str, action: str = "published", repository: str = REPOSITORY) -> dict[str, Any]:
    url = f"https://github.com/{repository}/releases/tag/{tag}"
    release = {"tag_name": tag, "draft": False, "html_url": url, "published_at": rfc(minutes)}
    return {"action": action, "release": release, "repository": github_repository(repository)}


def github_deployment(
    minutes: int, number: int, state: str = "success", repository: str = REPOSITORY
) -> dict[str, Any]:
    return {
        "action": "created",
        "deployment_status": {
            "state": state,
            "environment": "production",
            "environment_url": "https://shop.example",
            "target_url": "",
            "created_at": rfc(minutes),
        },
        "deployment": {"id": number, "ref": "main", "sha": full_sha("de"), "environment": "production"},
        "repository": github_repository(repository),
    }


GITLAB_PROJECT: Final[dict[str, Any]] = {
    "name": "web",
    "web_url": "https://gitlab.com/shop/web",
    "path_with_namespace": "shop/web",
    "default_branch": "main",
}


def gitlab_push(minutes: int, start: str, message: str, branch: str = "main") -> dict[str, Any]:
    return {
        "object_kind": "push",
        "event_name": "push",
        "after": full_sha(start),
        "ref": f"refs/heads/{branch}",
        "user_name": "Ada",
        "project": GITLAB_PROJECT,
        "commits": [
            {
                "id": full_sha(start),
                "message": message,
                "timestamp": at(minutes).strftime("%Y-%m-%dT%H:%M:%S+00:00"),
                "url": f"https://gitlab.com/shop/web/-/commit/{full_sha(start)}",
                "author": {"name": "Ada", "email": "[REDACTED]"},
                "added": ["CHANGELOG"],
                "modified": ["src/cart.py"],
                "removed": [],
            }
        ],
        "total_commits_count": 1,
    }


def gitlab_merge_request(
    minutes: int, action: str, number: int, state: str, description: str | None, target: str = "main"
) -> dict[str, Any]:
    return {
        "object_kind": "merge_request",
        "event_type": "merge_request",
        "user": {"id": 1, "name": "Ada", "username": "ada"},
        "project": GITLAB_PROJECT,
        "object_attributes": {
            "id": 99,
            "iid": number,
            "title": f"Change {number}",
            "description": description,
            "state": state,
            "source_branch": "fix",
            "target_branch": target,
            "merge_commit_sha": full_sha("3e") if state == "merged" else None,
            "last_commit": {"id": full_sha("aa"), "author": {"name": "Ada", "email": "ada@example.com"}},
            "url": f"https://gitlab.com/shop/web/-/merge_requests/{number}",
            "created_at": at(0).strftime("%Y-%m-%d %H:%M:%S UTC"),
            "updated_at": at(minutes).strftime("%Y-%m-%d %H:%M:%S UTC"),
            "action": action,
        },
    }


def gitlab_issue(minutes: int, action: str, number: int, state: str, kind: str = "issue") -> dict[str, Any]:
    return {
        "object_kind": kind,
        "event_type": kind,
        "project": GITLAB_PROJECT,
        "object_attributes": {
            "id": 301,
            "iid": number,
            "title": "Totals",
            "state": state,
            "type": "Issue",
            "url": f"https://gitlab.com/shop/web/-/work_items/{number}",
            "updated_at": rfc(minutes),
            "action": action,
        },
    }


def gitlab_release(minutes: int, tag: str, action: str = "create") -> dict[str, Any]:
    return {
        "id": 1,
        "object_kind": "release",
        "tag": tag,
        "name": tag,
        "released_at": at(minutes).strftime("%Y-%m-%d %H:%M:%S UTC"),
        "project": GITLAB_PROJECT,
        "url": f"https://gitlab.com/shop/web/-/releases/{tag}",
        "action": action,
        "commit": {"id": full_sha("ee"), "message": "Release"},
    }


def gitlab_deployment(minutes: int, number: int, status: str = "success") -> dict[str, Any]:
    return {
        "object_kind": "deployment",
        "status": status,
        "status_changed_at": at(minutes).strftime("%Y-%m-%d %H:%M:%S +0000"),
        "deployment_id": number,
        "deployable_id": 796,
        "deployable_url": "https://gitlab.com/shop/web/-/jobs/796",
        "environment": "staging",
        "environment_tier": "staging",
        "environment_external_url": "https://staging.shop.example",
        "project": GITLAB_PROJECT,
        "short_sha": "279484c0",
        "commit_url": f"https://gitlab.com/shop/web/-/commit/{full_sha('279484c0')}",
        "commit_title": "Add new file",
    }


def bitbucket_push(minutes: int, start: str, message: str, branch: str = "main") -> dict[str, Any]:
    return {
        "actor": {"display_name": "Ada"},
        "repository": {"full_name": "shop/web", "name": "web", "scm": "git", "is_private": True},
        "push": {
            "changes": [
                {
                    "new": {
                        "type": "branch",
                        "name": branch,
                        "target": {"type": "commit", "hash": full_sha(start), "date": rfc(minutes)},
                    },
                    "old": None,
                    "created": False,
                    "truncated": False,
                    "commits": [
                        {
                            "hash": full_sha(start),
                            "type": "commit",
                            "message": message,
                            "date": rfc(minutes),
                            "author": {"raw": "Ada <ada@example.com>", "user": {"display_name": "Ada"}},
                            "links": {"html": {"href": f"https://bitbucket.org/shop/web/commits/{full_sha(start)}"}},
                        }
                    ],
                },
                {"new": None, "old": {"type": "branch", "name": "gone"}, "closed": True},
            ]
        },
    }


def bitbucket_pull_request(
    minutes: int, number: int, state: str, description: str, target: str = "develop"
) -> dict[str, Any]:
    return {
        "repository": {"full_name": "shop/web", "name": "web"},
        "pullrequest": {
            "id": number,
            "title": f"Change {number}",
            "description": description,
            "state": state,
            "author": {"display_name": "Ada"},
            "source": {"branch": {"name": "fix"}, "commit": {"hash": "d3022fc0ca3d"}},
            "destination": {"branch": {"name": target}, "commit": {"hash": "ce5965ddd289"}},
            "merge_commit": {"hash": "764413d85e29"} if state == "MERGED" else None,
            "created_on": at(0).strftime("%Y-%m-%dT%H:%M:%S.179678+00:00"),
            "updated_on": at(minutes).strftime("%Y-%m-%dT%H:%M:%S.205705+00:00"),
            "links": {"html": {"href": f"https://bitbucket.org/shop/web/pull-requests/{number}"}},
        },
    }


def bitbucket_issue(minutes: int, number: int, state: str) -> dict[str, Any]:
    return {
        "repository": {"full_name": "shop/web"},
        "issue": {
            "id": number,
            "title": "Totals",
            "state": state,
            "updated_on": rfc(minutes),
            "links": {"html": {"href": f"https://bitbucket.org/shop/web/issues/{number}/totals"}},
        },
    }


def data_center_repository() -> dict[str, Any]:
    return {"slug": "web", "id": 4, "name": "web", "project": {"key": "SHOP", "id": 2, "type": "NORMAL"}}


def data_center_push(minutes: int, start: str, message: str, branch: str = "master") -> dict[str, Any]:
    return {
        "eventKey": "repo:refs_changed",
        "date": at(minutes).strftime("%Y-%m-%dT%H:%M:%S+0000"),
        "actor": {"name": "ada", "emailAddress": "ada@example.com", "displayName": "Ada"},
        "repository": data_center_repository(),
        "changes": [
            {
                "ref": {"id": f"refs/heads/{branch}", "displayId": branch, "type": "BRANCH"},
                "refId": f"refs/heads/{branch}",
                "fromHash": full_sha("be"),
                "toHash": full_sha(start),
                "type": "UPDATE",
            }
        ],
        "commits": [
            {
                "id": full_sha(start),
                "author": {"name": "ada", "emailAddress": "ada@example.com", "displayName": "Ada"},
                "authorTimestamp": epoch_ms(minutes),
                "message": message,
            }
        ],
    }


def data_center_pull_request(minutes: int, event: str, number: int, state: str, description: str) -> dict[str, Any]:
    end = {"id": "refs/heads/fix", "displayId": "fix", "latestCommit": full_sha("aa")}
    merge = {"mergeCommit": {"displayId": "cbf26be", "id": full_sha("cbf26be")}}
    return {
        "eventKey": event,
        "date": at(minutes).strftime("%Y-%m-%dT%H:%M:%S+0000"),
        "actor": {"name": "ada"},
        "pullRequest": {
            "id": number,
            "version": 2,
            "title": f"Change {number}",
            "description": description,
            "state": state,
            "open": state == "OPEN",
            "createdDate": epoch_ms(0),
            "updatedDate": epoch_ms(minutes),
            "fromRef": end | {"repository": data_center_repository()},
            "toRef": end | {"repository": data_center_repository()},
            "author": {"user": {"name": "ada", "displayName": "Ada"}, "role": "AUTHOR"},
            "properties": merge if state == "MERGED" else {},
            "links": {"self": [{"href": f"https://bitbucket.shop.example/pull-requests/{number}"}]},
        },
    }


GITEA_REPOSITORY: Final[dict[str, Any]] = github_repository() | {"html_url": "https://git.shop.example/shop/web"}
# What events of Gitea have beside the fields that follow GitHub.
_OF_GITEA: Final[dict[str, Any]] = {"repository": GITEA_REPOSITORY, "commit_id": "", "review": None}


def gitea_push(minutes: int, *commits: tuple[str, str], branch: str = "main") -> dict[str, Any]:
    """Its commits are given newest first."""
    listed = [github_commit(*each, minutes, verification=None, added=None, removed=None) for each in commits]
    for one in listed:
        del one["distinct"]
    more: dict[str, Any] = {"after": listed[0]["id"], "total_commits": len(listed), "repository": GITEA_REPOSITORY}
    return github_push(minutes, *listed, branch=branch) | more


def gitea_pull_request(minutes: int, action: str, number: int, body: str, *, merged: bool = False) -> dict[str, Any]:
    state, merge_sha = "closed" if action == "closed" else "open", "3e" if merged else None
    more: dict[str, Any] = {
        "html_url": f"https://git.shop.example/shop/web/pulls/{number}",
        "merged_at": rfc(minutes) if merged else None,
    }
    made = github_pull_request(minutes, action, number, body, state=state, merged=merged, merge_sha=merge_sha, **more)
    return made | _OF_GITEA


def gitea_issue(minutes: int, action: str, number: int, state: str) -> dict[str, Any]:
    url = f"https://git.shop.example/shop/web/issues/{number}"
    made = github_issue(minutes, action, number, state, html_url=url, pull_request=None)
    return made | {"repository": GITEA_REPOSITORY, "commit_id": ""}


def gitea_release(minutes: int, tag: str, action: str = "published") -> dict[str, Any]:
    return github_release(minutes, tag, action) | {"repository": GITEA_REPOSITORY}
