import {
  createSortedRowModel,
  type Row,
  rowSortingFeature,
  type SortingState,
  sortFns,
  tableFeatures,
  useTable,
} from '@tanstack/react-table';
import { memo, type ReactNode, useRef, useState } from 'react';
import { isControl, useRovingFocus, useWindow } from './table-rows.ts';
import './table.css';

export interface Column<Entry> {
  readonly id: string;
  readonly header: string;
  readonly cell: (entry: Entry) => ReactNode;
  /** `w` takes the width that is left, `r` stands right, `c-lo` is left out on a phone, `c-md` on anything narrow. */
  readonly className?: string;
  /** Where the column can be sorted by. */
  readonly sort?: (entry: Entry) => string | number;
}

interface TableProps<Entry> {
  /** What the rows are, for screen readers. */
  readonly label: string;
  readonly columns: readonly Column<Entry>[];
  readonly rows: readonly Entry[];
  readonly rowId: (entry: Entry) => string;
  /** Enter or a click on a row. */
  readonly onOpen?: (entry: Entry) => void;
  /** Id of the row that is open beside the table. */
  readonly selected?: string | undefined;
  /** Below the rows. */
  readonly foot?: ReactNode;
  /**
   * The columns have the widths of their classes, whatever is in them: rows that come and go ten times a second move nothing beside
   * them, and the browser measures no cell.
   */
  readonly isFixed?: boolean;
}

const features = tableFeatures({
  rowSortingFeature,
  sortedRowModel: createSortedRowModel(),
  sortFns,
});

/** Rows of 32 px, moved through with `j` and `k` or the arrows; Enter opens. */
export function Table<Entry extends object>(props: TableProps<Entry>) {
  const { label, columns, rows, rowId, onOpen, selected, foot, isFixed = false } = props;
  const [sorting, setSorting] = useState<SortingState>([]);
  const table = useTable({
    features,
    columns: columns.map(({ id, header, sort }) => ({
      id,
      header,
      accessorFn: sort ?? (() => 0),
      enableSorting: sort !== undefined,
    })),
    data: rows as Entry[],
    getRowId: rowId,
    state: { sorting },
    onSortingChange: setSorting,
  });
  const shown = table.getRowModel().rows as Row<typeof features, Entry>[];
  const body = useRef<HTMLTableSectionElement>(null);
  const { slice, before, after, reveal } = useWindow(shown.length, body);
  const roving = useRovingFocus({ ids: shown.map(({ id }) => id), selected, body, reveal });

  return (
    <div className="box bleed">
      <table
        className={isFixed ? 'tbl tbl-fixed' : 'tbl'}
        // biome-ignore lint/a11y/noNoninteractiveElementToInteractiveRole: a table whose rows take the focus is a grid.
        role="grid"
        aria-label={label}
        aria-rowcount={shown.length + 1}
      >
        <thead>
          <tr aria-rowindex={1}>
            {columns.map((column) => (
              <HeaderCell
                key={column.id}
                column={column}
                sorted={sorting.find(({ id }) => id === column.id)}
                onSort={(desc) => setSorting([{ id: column.id, desc }])}
              />
            ))}
          </tr>
        </thead>
        <tbody ref={body} onKeyDown={roving.onKeyDown}>
          {before > 0 && <Gap height={before} columns={columns.length} />}
          {shown.slice(slice.from, slice.to).map(({ id, original }, index) => (
            <tr
              key={id}
              data-row={id}
              aria-rowindex={slice.from + index + 2}
              aria-selected={id === selected}
              tabIndex={id === roving.active ? 0 : -1}
              className={onOpen === undefined ? undefined : 'can-open'}
              onFocus={() => roving.setFocused(id)}
              onClick={(event) => !isControl(event.target) && onOpen?.(original)}
              onKeyDown={(event) => event.key === 'Enter' && !isControl(event.target) && onOpen?.(original)}
            >
              <Cells columns={columns as readonly Column<object>[]} entry={original} />
            </tr>
          ))}
          {after > 0 && <Gap height={after} columns={columns.length} />}
        </tbody>
      </table>
      {foot !== undefined && foot !== false && <div className="tfoot">{foot}</div>}
    </div>
  );
}

interface CellsProps {
  readonly columns: readonly Column<object>[];
  readonly entry: object;
}

/** The cells of a row. They are drawn anew only for another entry: a live list moves hundreds of rows ten times a second. */
const Cells = memo(function Cells({ columns, entry }: CellsProps) {
  return columns.map((column) => (
    <td key={column.id} className={column.className}>
      {column.cell(entry)}
    </td>
  ));
});

interface HeaderCellProps<Entry> {
  readonly column: Column<Entry>;
  readonly sorted: { readonly desc: boolean } | undefined;
  readonly onSort: (desc: boolean) => void;
}

function HeaderCell<Entry>({ column, sorted, onSort }: HeaderCellProps<Entry>) {
  const className = column.className?.replace(/\b(mono|dim)\b/g, '');
  if (column.sort === undefined) return <th className={className}>{column.header}</th>;
  const direction = sorted === undefined ? 'none' : sorted.desc ? 'descending' : 'ascending';
  return (
    <th className={className} aria-sort={direction}>
      <button type="button" className="th-sort" onClick={() => onSort(sorted?.desc === false)}>
        {column.header}
        <span aria-hidden="true">{sorted === undefined ? '' : sorted.desc ? ' ↓' : ' ↑'}</span>
      </button>
    </th>
  );
}

/** Stands for rows that are not drawn. */
function Gap({ height, columns }: { readonly height: number; readonly columns: number }) {
  return (
    <tr className="tbl-gap">
      <td colSpan={columns} style={{ height }} />
    </tr>
  );
}
