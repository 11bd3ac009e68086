-- Audit events are only added. Erasing an organization that was deleted leaves of each what its hash covers. The row that an
-- INSERT OR REPLACE takes the place of would be deleted without the trigger for DELETE.

CREATE TRIGGER audit_events_no_replace BEFORE INSERT ON audit_events WHEN EXISTS (SELECT 1 FROM audit_events WHERE rowid = NEW.rowid OR (org_id = NEW.org_id AND seq = NEW.seq)) BEGIN SELECT RAISE(ABORT, 'audit events are only added'); END;

CREATE TRIGGER audit_events_no_delete BEFORE DELETE ON audit_events BEGIN SELECT RAISE(ABORT, 'audit events are only added'); END;

CREATE TRIGGER audit_events_no_update BEFORE UPDATE ON audit_events WHEN (NEW.erased
    AND NEW.data = '{}'
    AND NEW.request_id = '(erased)'
    AND NEW.salt IS NULL
    AND NEW.object_id IN (OLD.object_id, '(erased)')
    AND EXISTS (SELECT 1 FROM organizations WHERE id = NEW.org_id AND deleted_at IS NOT NULL)
    AND NEW.org_id IS OLD.org_id
    AND NEW.seq IS OLD.seq
    AND NEW.at IS OLD.at
    AND NEW.actor_id IS OLD.actor_id
    AND NEW.actor_kind IS OLD.actor_kind
    AND NEW.on_behalf_of IS OLD.on_behalf_of
    AND NEW.act_chain IS OLD.act_chain
    AND NEW.token_id IS OLD.token_id
    AND NEW.action IS OLD.action
    AND NEW.prev_hash IS OLD.prev_hash
    AND NEW.hash IS OLD.hash) IS NOT TRUE BEGIN SELECT RAISE(ABORT, 'audit events are only added'); END;
