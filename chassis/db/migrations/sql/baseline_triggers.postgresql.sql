-- Audit events are only added. Erasing an organization that was deleted leaves of each what its hash covers.

CREATE FUNCTION audit_events_append_only() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
    IF TG_OP = 'UPDATE' THEN
        IF NEW.erased
    AND NEW.data = '{}'
    AND NEW.request_id = '(erased)'
    AND NEW.salt IS NULL
    AND NEW.object_id IN (OLD.object_id, '(erased)')
    AND EXISTS (SELECT 1 FROM organizations WHERE id = NEW.org_id AND deleted_at IS NOT NULL)
    AND NEW.org_id IS NOT DISTINCT FROM OLD.org_id
    AND NEW.seq IS NOT DISTINCT FROM OLD.seq
    AND NEW.at IS NOT DISTINCT FROM OLD.at
    AND NEW.actor_id IS NOT DISTINCT FROM OLD.actor_id
    AND NEW.actor_kind IS NOT DISTINCT FROM OLD.actor_kind
    AND NEW.on_behalf_of IS NOT DISTINCT FROM OLD.on_behalf_of
    AND NEW.act_chain IS NOT DISTINCT FROM OLD.act_chain
    AND NEW.token_id IS NOT DISTINCT FROM OLD.token_id
    AND NEW.action IS NOT DISTINCT FROM OLD.action
    AND NEW.prev_hash IS NOT DISTINCT FROM OLD.prev_hash
    AND NEW.hash IS NOT DISTINCT FROM OLD.hash THEN
            RETURN NEW;
        END IF;
    END IF;
    RAISE EXCEPTION 'audit events are only added';
END $$;

CREATE TRIGGER audit_events_no_update BEFORE UPDATE OR DELETE ON audit_events FOR EACH ROW EXECUTE FUNCTION audit_events_append_only();

CREATE TRIGGER audit_events_no_truncate BEFORE TRUNCATE ON audit_events FOR EACH STATEMENT EXECUTE FUNCTION audit_events_append_only();
