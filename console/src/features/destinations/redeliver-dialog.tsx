import { useQuery } from '@tanstack/react-query';
import { ConfirmDialog } from '../../ui/dialog.tsx';
import { Failure } from '../../ui/empty-state.tsx';
import { exactNumber, plural } from '../../ui/format.ts';
import { toast } from '../../ui/toast.tsx';
import { type RedeliveryRequest, redeliveryPreviewQuery, useRedeliver } from './queries.ts';

interface RedeliverDialogProps {
  readonly request: RedeliveryRequest;
  readonly onClose: () => void;
}

/** Dead letters or dropped deliveries once more, with a new retry window, after a count of them. */
export function RedeliverDialog({ request, onClose }: RedeliverDialogProps) {
  const { destination, state, reason } = request;
  const preview = useQuery(redeliveryPreviewQuery(request));
  const redeliver = useRedeliver();
  const count = preview.data?.count;
  return (
    <ConfirmDialog
      title={`Redeliver to ${destination}`}
      action={count === undefined ? 'Redeliver' : `Redeliver ${exactNumber(count)}`}
      onConfirm={async () => {
        const done = await redeliver.mutateAsync(request);
        toast(
          `${plural(done.count, 'delivery', 'deliveries')} to ${destination} ${done.count === 1 ? 'is' : 'are'} on the way.`,
        );
      }}
      onClose={onClose}
    >
      {preview.error !== null && <Failure error={preview.error} />}
      <p aria-live="polite">
        {count === undefined
          ? 'Counting …'
          : `${state === 'dropped' ? plural(count, 'dropped delivery', 'dropped deliveries') : plural(count, 'dead letter')}${reason === undefined ? '' : ` with the reason ${reason}`} ${count === 1 ? 'is' : 'are'} tried again, for another four hours if need be.`}
      </p>
      <p className="soft">Receivers see the same Webhook-Id as the first time.</p>
    </ConfirmDialog>
  );
}
