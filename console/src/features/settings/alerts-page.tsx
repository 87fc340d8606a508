import { useQuery, useQueryClient } from '@tanstack/react-query';
import { getRouteApi } from '@tanstack/react-router';
import { Plus } from 'lucide-react';
import { useState } from 'react';
import { recordQuery, useRecordChanges } from '../../api/records.ts';
import { useMay } from '../../api/roles.ts';
import { Button } from '../../ui/controls.tsx';
import { ConfirmDialog } from '../../ui/dialog.tsx';
import { EmptyState, Failure, SkeletonRows } from '../../ui/empty-state.tsx';
import { Page, Section } from '../../ui/page.tsx';
import { toast } from '../../ui/toast.tsx';
import { EditAlertDialog, NewAlertDialog } from './alert-dialog.tsx';
import { type AlertAction, AlertRow } from './alert-row.tsx';
import { AlertTestDialog } from './alert-test-dialog.tsx';
import { type Alert, alertsQuery } from './queries.ts';
import { SettingSections } from './section-tabs.tsx';

const route = getRouteApi('/shell/settings/alerts');

/** The dialog without a form that is open above the list. */
interface Opened {
  readonly kind: 'test' | 'remove';
  readonly alert: Alert;
}

/** Page of alerts: who is told by webhook or mail when something needs a person. */
export function AlertsPage() {
  const alerts = useQuery(alertsQuery);
  const mayChange = useMay('editor');
  const { new: isNew, edit } = route.useSearch();
  const navigate = route.useNavigate();
  const [opened, setOpened] = useState<Opened>();
  const close = () => {
    setOpened(undefined);
    void navigate({ search: {}, replace: true });
  };
  const act = (kind: AlertAction, alert: Alert) => {
    if (kind === 'edit') void navigate({ search: { edit: alert.name } });
    else setOpened({ kind, alert });
  };
  return (
    <Page title="Settings">
      <SettingSections />
      <Section
        title="Alerts"
        about={alerts.data?.length}
        aside={
          mayChange && (
            <Button isSmall onClick={() => void navigate({ search: { new: true } })}>
              <Plus className="i i-s" aria-hidden />
              New alert
            </Button>
          )
        }
      >
        {alerts.error !== null && <Failure error={alerts.error} />}
        {alerts.isPending ? (
          <SkeletonRows rows={3} />
        ) : (
          <AlertList alerts={alerts.data ?? []} mayChange={mayChange} onAct={act} />
        )}
        <p className="hint">
          One message for a change that lasts, not one for each event. A restart repeats nothing. Alerts
          cannot tell that the server itself is dead: watch /readyz from another machine for that.
        </p>
      </Section>
      {isNew === true && mayChange && <NewAlertDialog onClose={close} />}
      {edit !== undefined && mayChange && <EditAlertDialog name={edit} onClose={close} />}
      {opened?.kind === 'test' && <AlertTestDialog alert={opened.alert} onClose={close} />}
      {opened?.kind === 'remove' && <RemoveDialog alert={opened.alert} onClose={close} />}
    </Page>
  );
}

interface AlertListProps {
  readonly alerts: readonly Alert[];
  readonly mayChange: boolean;
  readonly onAct: (action: AlertAction, alert: Alert) => void;
}

function AlertList({ alerts, mayChange, onAct }: AlertListProps) {
  return (
    <div className="box bleed">
      {alerts.length === 0 ? (
        <EmptyState title="Nobody is told yet">
          An alert sends a signed webhook or a mail when a destination starts to fail or recovers, deliveries
          die, the ledger does not balance, the disk fills or profiles stop.
        </EmptyState>
      ) : (
        alerts.map((alert) => (
          <AlertRow
            key={alert.name}
            alert={alert}
            onAct={mayChange ? (action) => onAct(action, alert) : undefined}
          />
        ))
      )}
    </div>
  );
}

function RemoveDialog({ alert: { name }, onClose }: { readonly alert: Alert; readonly onClose: () => void }) {
  const record = recordQuery('alerts', name);
  useQuery(record);
  const client = useQueryClient();
  const { remove } = useRecordChanges('alerts', name);
  return (
    <ConfirmDialog
      title={`Remove the alert ${name}`}
      action="Remove alert"
      isDangerous
      onConfirm={async () => {
        // The button can be pressed before the server has answered: the removal then waits for the tag.
        const { tag } = await client.ensureQueryData(record);
        await remove(tag);
        toast(`The alert ${name} is removed.`);
      }}
      onClose={onClose}
    >
      <p>Its receiver is told of nothing more, and not of the end of what it was told.</p>
    </ConfirmDialog>
  );
}
