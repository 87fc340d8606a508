import { EmptyState } from '../../ui/empty-state.tsx';
import { visibleLine } from '../../ui/visible-text.ts';
import { OtherMeanings } from './other-meanings.tsx';

interface UnknownEventProps {
  readonly messageId: string;
  /** Source in which was searched; absent: all sources. */
  readonly source?: string | undefined;
}

/** Shown when a messageId is unknown or its event is no longer stored. */
export function UnknownEvent({ messageId, source }: UnknownEventProps) {
  const where = source === undefined ? '' : ` of the source ${visibleLine(source, 60)}`;
  return (
    <div className="box">
      <EmptyState
        title={`No call${where} had the messageId ${visibleLine(messageId, 80)}`}
        action={<OtherMeanings text={messageId} not="messageId" />}
      >
        Its event may be older than the retention, or was erased. What you look for may be another kind of id.
      </EmptyState>
    </div>
  );
}
