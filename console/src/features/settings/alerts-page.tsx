import { useQuery } from '@tanstack/react-query';
import { Plus } from 'lucide-react';
import { useState } from 'react';
import { useMay } from '../../api/roles.ts';
import { Button } from '../../ui/controls.tsx';
import { ConfirmDialog } from '../../ui/dialog.tsx';
import { EmptyState, Failure, SkeletonRows } from '../../ui/empty-state.tsx';
import { plural } from '../../ui/format.ts';
import { Page, Section } from '../../ui/page.tsx';
import { StateMark } from '../../ui/state-mark.tsx';
import { RelativeTime } from '../../ui/time.tsx';
import { toast } from '../../ui/toast.tsx';
import { visibleText } from '../../ui/visible-text.ts';
import { AlertDialog } from './alert-dialog.tsx';
import { AlertTestDialog } from './alert-test-dialog.tsx';
import { type Alert, alertsQuery, useRemoveAlert } from './queries.ts';
import { SettingSections } from './section-tabs.tsx';
import '../../ui/form.css';

/** The dialog that is open above the list. */
type Opened = { readonly kind: 'new' } | { readonly kind: 'edit' | 'test' | 'remove'; readonly alert: Alert };

/** Who is told, by webhook or mail, when something needs a person. */
export function AlertsPage() {
  const alerts = useQuery(alertsQuery);
  const mayChange = useMay('editor');
  const [opened, setOpened] = useState<Opened>();
  const close = () => setOpened(undefined);
  return (
    <Page title="Settings">
      <SettingSections />
      <Section
        title="Alerts"
        about={alerts.data?.length}
        aside={
          mayChange && (
            <Button isSmall onClick={() => setOpened({ kind: 'new' })}>
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
          <AlertTable alerts={alerts.data ?? []} mayChange={mayChange} onOpen={setOpened} />
        )}
        <p className="hint">
          One message for a change that lasts, not one for each event. A restart repeats nothing. Alerts
          cannot tell that the server itself is dead: watch /readyz from another machine for that.
        </p>
      </Section>
      {opened?.kind === 'new' && <AlertDialog onClose={close} />}
      {opened?.kind === 'edit' && <AlertDialog alert={opened.alert} onClose={close} />}
      {opened?.kind === 'test' && <AlertTestDialog alert={opened.alert} onClose={close} />}
      {opened?.kind === 'remove' && <RemoveDialog alert={opened.alert} onClose={close} />}
    </Page>
  );
}

interface AlertTableProps {
  readonly alerts: readonly Alert[];
  readonly mayChange: boolean;
  readonly onOpen: (opened: Opened) => void;
}

function AlertTable({ alerts, mayChange, onOpen }: AlertTableProps) {
  if (alerts.length === 0) {
    return (
      <div className="box bleed">
        <EmptyState title="Nobody is told yet">
          An alert sends a signed webhook or a mail when a destination starts to fail or recovers, deliveries
          die, the ledger does not balance, the disk fills or profiles stop.
        </EmptyState>
      </div>
    );
  }
  return (
    <div className="box bleed">
      <table className="tbl">
        <thead>
          <tr>
            <th>Name</th>
            <th className="w c-lo">Receiver</th>
            <th>Told</th>
            <th className="c-lo">Last message</th>
            {mayChange && <th aria-label="Actions" />}
          </tr>
        </thead>
        <tbody>
          {alerts.map((alert) => (
            <tr key={alert.name}>
              <td className="med">{visibleText(alert.name)}</td>
              <td className="w c-lo">
                <span className="mono clip">{visibleText(receiverOf(alert))}</span>
              </td>
              <td>
                <Told alert={alert} />
              </td>
              <td className="soft c-lo">
                <LastMessage alert={alert} />
              </td>
              {mayChange && (
                <td className="r nowrap">
                  <Actions alert={alert} onOpen={onOpen} />
                </td>
              )}
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

function receiverOf({ settings }: Alert): string {
  return 'url' in settings ? settings.url : settings.to.join(', ');
}

function Told({ alert: { enabled, open } }: { readonly alert: Alert }) {
  if (!enabled) return <StateMark state="disabled" />;
  if (open.length === 0) return <StateMark state="healthy" label="nothing open" />;
  const what = open.map(({ destination, condition }) => destination ?? condition.replaceAll('_', ' '));
  return (
    <StateMark state="failing" label={`${plural(open.length, 'trouble')}: ${visibleText(what.join(', '))}`} />
  );
}

function LastMessage({ alert: { last, isWaiting } }: { readonly alert: Alert }) {
  if (last === undefined) return isWaiting ? <StateMark state="retrying" label="waits" /> : '—';
  return (
    <span className="rowx">
      <StateMark
        state={last.outcome === 'taken' ? 'delivered' : 'retrying'}
        label={
          last.outcome === 'taken' ? 'taken' : `not taken: ${visibleText(last.answer || String(last.status))}`
        }
      />
      <RelativeTime at={last.at} />
    </span>
  );
}

function Actions({ alert, onOpen }: { readonly alert: Alert; readonly onOpen: (opened: Opened) => void }) {
  const { name } = alert;
  return (
    <>
      <Button
        isSmall
        kind="quiet"
        aria-label={`Test ${name}…`}
        onClick={() => onOpen({ kind: 'test', alert })}
      >
        Test…
      </Button>
      <Button
        isSmall
        kind="quiet"
        aria-label={`Edit ${name}…`}
        onClick={() => onOpen({ kind: 'edit', alert })}
      >
        Edit…
      </Button>
      <Button
        isSmall
        kind="danger"
        aria-label={`Remove ${name}…`}
        onClick={() => onOpen({ kind: 'remove', alert })}
      >
        Remove…
      </Button>
    </>
  );
}

function RemoveDialog({ alert: { name }, onClose }: { readonly alert: Alert; readonly onClose: () => void }) {
  const remove = useRemoveAlert();
  return (
    <ConfirmDialog
      title={`Remove the alert ${name}`}
      action="Remove alert"
      isDangerous
      onConfirm={async () => {
        await remove.mutateAsync(name);
        toast(`The alert ${name} is removed.`);
      }}
      onClose={onClose}
    >
      <p>Its receiver is told of nothing more, and not of the end of what it was told.</p>
    </ConfirmDialog>
  );
}
