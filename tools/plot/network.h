// Networks: nodes in columns and rows, and edges between them.
#pragma once

#include <string>
#include <vector>

#include "autograd/base/index.h"
#include "tools/plot/canvas.h"

namespace heed::plot {

/// A network. Information flows from left to right.
struct Network {
  /// A node at a place of the grid.
  struct Node {
    std::string name;  ///< text in the node; unique
    Index column;      ///< from left to right, from 0
    Index row = 0;     ///< from top to bottom, from 0
  };
  /// Directed edge from one node to another.
  struct Edge {
    std::string from;  ///< name of a node
    std::string to;    ///< name of a node
    std::string name;  ///< name of the edge
    double value;      ///< its magnitude determines the width; dashed if positive
    int color = 0;     ///< index into kEdgeColors
  };
  std::string title = {};        ///< title; long lines are wrapped
  std::string caption = {};      ///< explanation below the title; long lines are wrapped
  std::vector<Node> nodes = {};  ///< the nodes
  std::vector<Edge> edges = {};  ///< the edges; several may connect the same nodes
};

/// Colors of edges: blue, orange, green and gray.
inline constexpr Rgb kEdgeColors[] = {{0, 114, 178}, {213, 94, 0}, {0, 158, 115}, {130, 130, 130}};

/// Draws the network on `canvas`, which gets the size of the picture. Columns and rows without a
/// node take no room. An edge goes around the nodes between its ends. Throws ValueError if an end
/// of an edge is not a node.
void draw(const Network& network, Canvas& canvas);

}  // namespace heed::plot
